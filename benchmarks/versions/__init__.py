"""This checkout beside another one."""
