"""``python -m r_bridge.kernel -f CONNECTION_FILE``: the kernel, as Jupyter starts it."""

import sys


def main() -> None:
    """Run the kernel until it is shut down."""
    try:
        from ipykernel.kernelapp import IPKernelApp
    except ImportError as error:
        sys.exit(f"the kernel needs ipykernel: pip install 'hdpstats[jupyter,r]' ({error})")
    from r_bridge.kernel.kernel import RKernel

    IPKernelApp.launch_instance(kernel_class=RKernel)


if __name__ == "__main__":
    main()
