xml.instruct!
xml.board do
  xml.title @board.title
  @board.posts.each do |post|
    xml.post(number: post.number) do
      xml.author post.author
      xml.message post.text
    end
  end
end
