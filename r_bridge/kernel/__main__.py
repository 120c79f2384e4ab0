"""``python -m r_bridge.kernel -f CONNECTION_FILE``: the kernel, as Jupyter starts it."""

import sys


def main() -> None:
    """Run the kernel until it is shut down."""
    try:
        from r_bridge.kernel.kernel import RKernelApp
    except ImportError as error:
        sys.exit(f"the kernel needs ipykernel: pip install '.[jupyter,r]' in a clone of hdpstats ({error})")
    RKernelApp.launch_instance()


if __name__ == "__main__":
    main()
