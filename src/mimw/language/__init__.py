"""What a kernel author writes: the words, their values and their contracts. Each call records ops of `mimw.ir`."""
