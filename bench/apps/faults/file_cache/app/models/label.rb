# What stands on the shelf below a book. It is drawn once and kept in the cache.
module Label
  COUNT = 200

  def self.of(id)
    Rails.cache.fetch("labels/#{id}") { Book.includes(:author).find(id).then { |book| "#{book.title}, #{book.author.name}: #{book.cents / 100.0}" } }
  end
end
