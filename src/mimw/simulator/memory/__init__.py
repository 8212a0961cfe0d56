"""What is stored: global memory, buffers and their views, mbarriers, tensors behind descriptors, and the same in other CTAs."""
