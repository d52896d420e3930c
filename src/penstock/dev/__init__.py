"""Services for people who have none at hand: real ones, started on this machine as processes of their own."""
