"""What is put into a pod: the reporter, a sample trainer, stand-ins for programs an image would bring."""
