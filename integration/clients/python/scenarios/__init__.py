"""Scenarios for Kazoo, a ZooKeeper client in Python. Each is a module with one function, play."""
