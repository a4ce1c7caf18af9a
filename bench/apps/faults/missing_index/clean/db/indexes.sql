CREATE INDEX index_books_on_author_id ON books (author_id);
CREATE INDEX index_books_on_subject ON books (subject);
CREATE INDEX index_ratings_on_book_id ON ratings (book_id);
