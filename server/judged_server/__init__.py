"""The judge daemon: install it with `pip install "judged[server]"`, run it with `judged-server`."""
