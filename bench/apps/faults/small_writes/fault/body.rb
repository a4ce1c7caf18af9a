def body(lines) = lines
