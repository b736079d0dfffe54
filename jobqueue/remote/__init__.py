"""The worker's leases through a server: WorkerService behind the interface of the lease room.

For workers that have no database. The server claims for them; everything else is as it is for
workers on the database, fences and keeper process included.
"""
