"""Small problems with known answers, shared by the tests."""
