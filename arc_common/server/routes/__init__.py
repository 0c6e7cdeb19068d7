"""The API's routes: `table` lists all of them."""
