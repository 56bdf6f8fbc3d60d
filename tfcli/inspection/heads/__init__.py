"""What each head does, and which head does a job."""
