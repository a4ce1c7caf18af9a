# Enough bytes for flow control to matter.
run ->(_env) { [200, { "content-type" => "text/plain" }, ["x" * 1024]] }
