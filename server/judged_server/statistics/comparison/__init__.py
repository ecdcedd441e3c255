"""Do runs differ? Tests over the queries that runs share.

`compare` puts everything together; `paired_tests`, `sign_flips`, `power` and `corrected_tests` hold
the methods.
"""
