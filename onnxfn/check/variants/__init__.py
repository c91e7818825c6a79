"""What quantized files and other dtypes are compared with."""
