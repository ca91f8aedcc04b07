"""The declaration of the appointments application, for its own tools and proofs, whatever folder they run in."""

from oneslot.declaration.reading import FILE_NAME, REPOSITORY, read_declaration

CONSUMER = read_declaration(REPOSITORY / FILE_NAME)
