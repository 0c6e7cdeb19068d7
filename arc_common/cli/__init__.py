"""The command line: arc demo, arc inspect, arc db."""
