"""What is measured, each table by one command. Rows of every run stay in `results/`, findings in `notes/`."""
