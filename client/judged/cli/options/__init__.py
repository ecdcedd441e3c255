"""The flags that commands share, and their way into the values of `judged`."""
