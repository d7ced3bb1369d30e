"""The store on a server, by PostgreSQL."""
