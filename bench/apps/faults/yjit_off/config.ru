# A page that computes, and not in one line: how many ways there are to place nine queens.
class Board
  def initialize(size)
    @size = size
  end

  def ways(row, columns, left, right)
    return 1 if row == @size

    count = 0
    column = 0
    while column < @size
      bit = 1 << column
      taken = columns | left | right
      free = (taken & bit).zero?
      count += ways(row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1) if free
      column += 1
    end
    count
  end
end

run(lambda do |env|
  headers = { "content-type" => "text/plain", "cache-control" => "private, no-store" }
  [200, headers, [env["PATH_INFO"] == "/queens" ? "#{Board.new(9).ways(0, 0, 0, 0)}\n" : "chess\n"]]
end)
