"""nginx for the good hosts: plain HTTP on port 80, TLS 1.3 with HTTP/2 on 443, every request in a log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

# What a line of the log says, here and in `origin`: UTC seconds, number of the connection, turn on it, and so on.
LOG_FORMAT = "$msec $connection $connection_requests $scheme $server_protocol $host $request_uri $status"

_CONFIGURATION = """
daemon off;
worker_processes 2;
worker_rlimit_nofile 65536;
pid {folder}/nginx.pid;
error_log {folder}/nginx-errors.log crit;
events {{ worker_connections 20000; }}
http {{
  log_format judge "{log_format} $ssl_session_reused";
  access_log {log} judge buffer=64k flush=1s;
  types {{ text/html html; text/plain txt; }}
  default_type text/html;
  charset utf-8;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  ssl_certificate {certificate};
  ssl_certificate_key {certificate};
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_session_cache shared:sessions:20m;
  server {{
    listen 80 backlog=4096;
    listen 443 ssl http2 backlog=4096;
    root {pages};
    ssi on;
  }}
  server {{
    listen unix:{folder}/status.sock;
    access_log off;
    location / {{ stub_status; }}
  }}
}}
"""


def can_be_had() -> bool:
    """Whether nginx is here, after trying to install it."""
    if shutil.which("nginx") is None and shutil.which("apt-get"):
        print("installing nginx ...", file=sys.stderr)
        for command in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", "nginx-light"]):
            subprocess.run(["apt-get", *command], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return shutil.which("nginx") is not None


def configure(folder: Path, pages: Path, certificate: Path, log: Path) -> list[str]:
    """Write what nginx is to do; the command that starts it."""
    text = _CONFIGURATION.format(folder=folder, log=log, pages=pages, certificate=certificate, log_format=LOG_FORMAT)
    path = folder / "nginx.conf"
    path.write_text(text)
    return ["nginx", "-c", str(path), "-e", str(folder / "nginx-errors.log")]
