vcl 4.1;

# Pages live as long as the origin says, up to the second at which they change, and not a moment longer.
backend default {
    .host = "127.0.0.1";
    .port = "ORIGIN";
}

sub vcl_backend_response {
    set beresp.grace = 0s;
    set beresp.keep = 0s;
}
