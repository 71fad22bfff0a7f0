"""The controller manager: the driver of controllers, and its process."""
