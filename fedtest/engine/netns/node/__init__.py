"""The Python environment that hosts without Docker run."""
