"""Translation of files of lines and of documents."""
