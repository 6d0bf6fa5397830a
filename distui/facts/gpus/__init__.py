"""GPUs of a host: output of NVIDIA's and AMD's tools in, GPUs with classified troubles out; XIDs in words."""
