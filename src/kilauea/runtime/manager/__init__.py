"""The controller manager: the driver of controllers, and the process around it."""
