# The style sheet and the script.
STYLE = Array.new(900) { |i| ".row-#{i} { color: ##{format("%06x", i * 7919 % 0xffffff)}; margin: #{i % 17}px }\n" }.join
SCRIPT = Array.new(900) { |i| "function handler#{i}(event) { return event.target.value * #{i} }\n" }.join
