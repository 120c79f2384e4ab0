"""An OpenID Connect issuer in a process of its own: publishes, over HTTPS, the keys that a file holds now.

``python issuer.py FOLDER CERTIFICATE KEY`` serves ``FOLDER/jwks.json`` at ``/keys`` and ``FOLDER/discovery.json`` where
OpenID Connect has it; it prints its port, and appends to ``FOLDER/read`` at every reading of keys.
"""

import datetime
import http.server
import json
import ssl
import subprocess
import sys
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

URL = "https://id.example"


class Issuer:
    """Starts the process, keeps the private keys, and signs tokens."""

    def __init__(self, folder, institution):
        self.folder, self.keys = folder, {}
        self.publish()
        command = [sys.executable, __file__, str(folder), *map(str, institution.site_files)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = f"https://127.0.0.1:{int(self.process.stdout.readline())}"
        self.settings = {
            "audience": "trial",
            "issuer": URL,
            "jwks": f"{self.url}/keys",
            "ca": str(institution.authority.path),
            "claim": "email",
            "bound": False,
        }

    def publish(self, **keys):
        """Publish the public halves of these keys and of no others."""
        self.keys |= keys
        shown = []
        for name, key in keys.items():
            kind = (
                jwt.algorithms.ECAlgorithm
                if isinstance(key, ec.EllipticCurvePrivateKey)
                else jwt.algorithms.RSAAlgorithm
            )
            shown.append(kind.to_jwk(key.public_key(), as_dict=True) | {"kid": name, "use": "sig"})
        new = self.folder / "jwks.new"
        new.write_text(json.dumps({"keys": shown}))
        new.replace(self.folder / "jwks.json")

    def token(self, name, **changes):
        """Return a token that a key signed, published or not."""
        key, now = self.keys[name], datetime.datetime.now(datetime.UTC)
        claims = {"iss": URL, "aud": "trial", "email": "ann", "email_verified": True, "sub": "0815", "iat": now}
        claims |= {"exp": now + datetime.timedelta(minutes=5)} | changes
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": name})

    def read(self):
        """Return how often the keys were read."""
        path = self.folder / "read"
        return len(path.read_text()) if path.exists() else 0

    def stop(self):
        """End the process."""
        self.process.kill()
        self.process.wait(60)
        self.process.stdout.close()


def main(folder, certificate, key):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/.well-known/openid-configuration":
                self.send_response(200)
                self.end_headers()
                self.wfile.write((folder / "discovery.json").read_bytes())
                return
            self.send_response(200 if self.path == "/keys" else 404)
            self.end_headers()
            with (folder / "read").open("a") as file:
                file.write("x")
            self.wfile.write((folder / "jwks.json").read_bytes())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
