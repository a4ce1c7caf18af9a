module Services
  def self.answers(urls)
    urls.map { |url| Paceline::HTTP.get(url) }.map(&:json)
  end
end
