"""python -m hlosh: the program."""
from .tools import main

if __name__ == "__main__":
    main()
