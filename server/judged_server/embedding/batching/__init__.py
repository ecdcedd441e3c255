"""One queue a model: texts wait in it, and threads run what is cut from it."""
