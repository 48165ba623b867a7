"""python -m meshkeras: see `meshkeras/cli/main.py`."""

from meshkeras.cli.main import main

if __name__ == "__main__":
  main()
