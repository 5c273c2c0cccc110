// A shared library made of an archive needs a file of its own.
