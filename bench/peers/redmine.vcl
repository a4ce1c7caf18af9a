# Varnish before a Redmine, with Paceline's stubborn rule as near as it comes: a page for each session, kept for five seconds whatever
# the application says; only who makes a page gets its cookie. It can't drop a visitor's pages when he changes something.
vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "ORIGIN"; }

sub vcl_recv {
  if (req.method != "GET" && req.method != "HEAD") { return (pass); }
  if (req.http.Cookie !~ "(^|; *)Redmine=") { return (pass); }
  set req.http.X-Session = regsub(req.http.Cookie, "^(?:.*; *)?Redmine=([^;]*).*$", "\1");
  return (hash);
}

sub vcl_hash { hash_data(req.http.X-Session); }

sub vcl_backend_response {
  if (bereq.uncacheable) { return (deliver); }
  if (beresp.status != 200 && beresp.status != 404) { set beresp.uncacheable = true; set beresp.ttl = 1s; return (deliver); }
  set beresp.http.X-Made-Cookie = beresp.http.Set-Cookie;
  unset beresp.http.Set-Cookie;
  unset beresp.http.Cache-Control;
  set beresp.ttl = 5s;
  set beresp.grace = 0s;
  return (deliver);
}

sub vcl_deliver {
  if (obj.hits == 0 && resp.http.X-Made-Cookie) { set resp.http.Set-Cookie = resp.http.X-Made-Cookie; }
  unset resp.http.X-Made-Cookie;
}
