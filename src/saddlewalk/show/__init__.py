"""What shows things: tables for people, pictures, a progress line."""
