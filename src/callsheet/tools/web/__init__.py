"""What `fetch` is made of: which addresses may be reached, how redirects are followed, what is shown."""
