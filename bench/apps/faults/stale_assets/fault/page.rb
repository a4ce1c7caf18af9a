PAGE = %(<!doctype html><link rel="stylesheet" href="/assets/shop.css"><script src="/assets/shop.js"></script><p>Books</p>).freeze
