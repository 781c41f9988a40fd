"""Linear and integer programmes, solved by HiGHS in a process that can be ended."""
