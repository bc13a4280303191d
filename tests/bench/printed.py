"""What a benchmark prints; for the tests of this folder."""
import contextlib
import io


def printed(main, arguments):
    """Its status, what it wrote to stdout, and to stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()
