"""What provides hosts: one narrow interface, a package per engine, a fake for tests."""
