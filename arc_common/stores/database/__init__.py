"""The database below the stores: connections, drivers, tables and migrations."""
