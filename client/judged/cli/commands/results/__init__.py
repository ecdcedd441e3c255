"""Commands that measure, compare and show what was judged before."""
