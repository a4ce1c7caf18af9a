def body(lines) = [lines.join]
