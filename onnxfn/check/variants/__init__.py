"""The references of quantized files and other dtypes."""
