"""Files and folders, local or in an object store; no other room of the core touches a file."""
