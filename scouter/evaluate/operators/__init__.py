"""The comparisons of a value with an expected one."""
