"""Pictures, pages and traces of what the engines recorded. Nothing here simulates."""
